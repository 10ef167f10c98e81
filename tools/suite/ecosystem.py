"""Programs of other projects on tensors: einops, SciPy and scikit-learn, through the Array API.

They are not among the packages of this project, and are installed if they are not there. Each case
is computed with tensors and with NumPy's arrays; it passes if the result is a tensor (or a
number) of the same values.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import porism
from tools.suite import install

NEEDED: Final = {"einops": "einops", "scipy": "scipy", "sklearn": "scikit-learn"}
"""The modules that the cases import, and their packages."""

SEED: Final = 0
CLOSE: Final = 1e-4

SCIPY: Final = (
    "special.logsumexp(x, axis=0)", "special.softmax(x, axis=1)", "special.erf(x)",
    "special.expit(x)", "special.xlogy(abs(x), abs(x))", "stats.zscore(x)",
    "stats.skew(x, axis=0)", "stats.kurtosis(x, axis=0)", "stats.gmean(abs(x), axis=0)",
    "stats.hmean(abs(x), axis=0)", "stats.moment(x, 2, axis=0)", "stats.sem(x, axis=0)",
    "stats.variation(x, axis=0)", "stats.entropy(abs(x), axis=0)",
    "stats.ttest_1samp(x, 0.0, axis=0).statistic", "stats.ttest_ind(x, x + 0.1).statistic",
    "stats.pearsonr(x[:, 0], x[:, 1]).statistic", "stats.rankdata(x, axis=0)",
    "integrate.trapezoid(x, axis=0)", "cluster.vq.whiten(x)", "cluster.vq.vq(x, x[:4])[0]",
    "ndimage.gaussian_filter(x, 1.0)", "abs(fft.fft(x, axis=0))",
    "spatial.transform.Rotation.from_rotvec(x).as_matrix()",
)  # fmt: skip

SKLEARN: Final = (
    "preprocessing.StandardScaler().fit(x).transform(x)",
    "preprocessing.MinMaxScaler().fit(x).transform(x)",
    "preprocessing.MaxAbsScaler().fit(x).transform(x)",
    "preprocessing.Normalizer().fit(x).transform(x)",
    "preprocessing.Binarizer().fit(x).transform(x)",
    "preprocessing.PolynomialFeatures().fit(x).transform(x)",
    "abs(decomposition.PCA(2, svd_solver='full').fit(x).transform(x))",
    "abs(decomposition.PCA(2, svd_solver='covariance_eigh').fit(x).transform(x))",
    "linear_model.Ridge(solver='svd').fit(x, x[:, 0]).predict(x)",
    "discriminant_analysis.LinearDiscriminantAnalysis().fit(x, y).predict(x)",
    "metrics.accuracy_score(y, y)", "metrics.f1_score(y, y)",
    "metrics.mean_squared_error(x, x + 1)", "metrics.r2_score(x[:, 0], x[:, 0] + 0.1)",
    "metrics.pairwise.cosine_similarity(x, x)", "metrics.pairwise.euclidean_distances(x, x)",
    "metrics.pairwise.rbf_kernel(x, x)",
    "model_selection.train_test_split(x, y, random_state=0)[0]",
)  # fmt: skip

PLAIN_EINOPS: Final = (
    'einsum(z, z, "a b c, a b d -> c d")',
    'rearrange([x, x], "k a b -> a (k b)")',
    'pack([z, z], "a b *")[0]',
)
"""Functions that `einops.array_api` does not have."""

EINOPS: Final = (
    "rearrange(z, 'a b c -> c (a b)')", "reduce(z, 'a b c -> a c', 'mean')",
    "repeat(z, 'a b c -> a b c d', d=2)", "pack([z, z], 'a * c')[0]",
    "asnumpy(rearrange(z, 'a (b c) d -> a b c d', c=3))",
)  # fmt: skip


def main() -> None:
    """Run all cases, and print those that fail and the counts."""
    os.environ["SCIPY_ARRAY_API"] = "1"
    warnings.simplefilter("ignore")
    install(NEEDED)
    failed = sum(_run(*group) for group in _groups())
    sys.exit(1 if failed else 0)


def _groups() -> list[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Return the name of each project, its cases and its names."""
    import einops.array_api
    import scipy
    import sklearn
    from sklearn import (
        decomposition,
        discriminant_analysis,
        linear_model,
        metrics,
        model_selection,
        preprocessing,
    )

    sklearn.set_config(array_api_dispatch=True)
    modules = (
        decomposition, discriminant_analysis, linear_model, metrics, model_selection, preprocessing
    )  # fmt: skip
    words = ("special", "stats", "integrate", "cluster", "ndimage", "fft", "spatial")
    return [
        ("einops", EINOPS + PLAIN_EINOPS, vars(einops)),
        ("einops.array_api", EINOPS, vars(einops.array_api)),
        ("scipy", SCIPY, {word: getattr(scipy, word) for word in words}),
        ("sklearn", SKLEARN, {module.__name__.split(".")[-1]: module for module in modules}),
    ]


def _run(project: str, cases: tuple[str, ...], names: dict[str, Any]) -> int:
    """Run the cases of a project; return how many fail."""
    failed = 0
    for case in cases:
        reason = _compare(lambda values, case=case: eval(case, dict(names), values))
        if reason is not None:
            failed += 1
            print(f"{project}: {case}: {reason}")
    print(f"{project}: {len(cases) - failed} of {len(cases)}")
    return failed


def _compare(program: Callable[[dict[str, Any]], Any]) -> str | None:
    """Return why a program does not give the same with tensors as with arrays; None if it does."""
    random = np.random.default_rng(SEED)
    x = random.normal(size=(20, 3))
    arrays = {"x": x, "y": (x[:, 0] > 0).astype(np.int64), "z": random.normal(size=(2, 3, 4))}
    tensors = {name: porism.asarray(array) for name, array in arrays.items()}
    try:
        got = program(tensors)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    expected = np.asarray(program(arrays))
    if expected.ndim and not isinstance(got, (porism.Tensor, np.ndarray)):
        return f"a {type(got).__name__}"
    same = np.allclose(np.asarray(got, np.float64), expected, CLOSE, CLOSE, equal_nan=True)
    return None if same else "other values"


if __name__ == "__main__":
    main()
