"""Function bodies: operators that are defined by other operators, expanded from their schemas."""

from __future__ import annotations

import difflib
from typing import Any

from porism.frontends.onnx import onnx_types
from porism.frontends.onnx.imported_graph import Function, Graph, Node, Reader
from porism.frontends.onnx.model_errors import ModelError, node_error
from porism.frontends.onnx.model_file import import_onnx
from porism.frontends.onnx.operator_call import Call, dtype_of, shape_of


def schema_of(domain: str, op: str, version: int) -> Any:
    """Return the schema of an operator at a version, or None."""
    onnx = import_onnx()
    try:
        return onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return None


def find(call: Call, reader: Reader) -> Function | None:
    """Return the definition of an operator by others, for the types of its inputs."""
    onnx = import_onnx()
    node = call.node
    schema = schema_of(node.domain, node.op, call.version)
    if schema is None:
        return None
    body = None
    if schema.has_function:
        body = schema.function_body
        version = max((n for n in schema.function_opset_versions if n <= call.version), default=0)
        if version:
            text = schema.get_function_with_opset_version(version)
            body = onnx.FunctionProto.FromString(text)
    elif schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
        version = max((n for n in versions if n <= call.version), default=0)
        if version:
            text = schema.get_context_dependent_function_with_opset_version(
                version, _node_proto(call, onnx).SerializeToString(), _input_types(call, onnx)
            )
            body = onnx.FunctionProto.FromString(text)
    if body is None:
        return None
    function = reader.function(body)
    _name_ports(function.graph, body, schema)
    for attribute in schema.attributes.values():
        if attribute.default_value.type and function.attributes.get(attribute.name) is None:
            function.attributes[attribute.name] = reader.attribute(attribute.default_value, 0, ())
    return function


def _name_ports(graph: Graph, body: Any, schema: Any) -> None:
    """Give a body without declared inputs and outputs those of its schema."""
    if not body.input:
        graph.inputs = [port.name for port in schema.inputs]
    if not body.output:
        graph.outputs = [port.name for port in schema.outputs]


def _node_proto(call: Call, onnx: Any) -> Any:
    """Return the node as a message, for definitions that depend on its attributes."""
    node = call.node
    inputs = [f"x{k}" if call.has(k) else "" for k in range(len(call.inputs))]
    plain = {
        name: value.message if isinstance(value, Graph) else value
        for name, value in call.attributes.items()
        if isinstance(value, (int, float, str, list, Graph))
    }
    proto = onnx.helper.make_node(
        node.op, inputs, [f"y{k}" if o else "" for k, o in enumerate(node.outputs)],
        domain=node.domain,
    )  # fmt: skip
    for name, value in plain.items():
        if isinstance(value, list) and not all(isinstance(v, (int, float, str)) for v in value):
            continue
        kind = onnx.AttributeProto.INTS if value == [] else None
        proto.attribute.append(onnx.helper.make_attribute(name, value, attr_type=kind))
    return proto


def _input_types(call: Call, onnx: Any) -> list[bytes]:
    """Return the types of a call's inputs as messages."""
    types = []
    for k in range(len(call.inputs)):
        if not call.has(k):
            types.append(onnx.TypeProto().SerializeToString())
            continue
        value = call.value(k)
        number = onnx_types.number_of(dtype_of(value))
        proto = onnx.helper.make_tensor_type_proto(number, shape_of(value))
        types.append(proto.SerializeToString())
    return types


def unknown_operator(node: Node, version: int) -> ModelError:
    """Return the error for an operator that is neither in the table nor defined by others."""
    from porism.frontends.onnx.operators import operator_table

    close = difflib.get_close_matches(node.op, operator_table.names(node.domain), 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    domain = f"{node.domain} " if node.domain else ""
    return node_error(
        node,
        f"the operator {domain}{node.op} of version {version} is not known{hint}",
        "it has no row in the table of operators, and no definition by other operators",
        "`porism check` lists what a model needs; export it with operators of ai.onnx",
    )
