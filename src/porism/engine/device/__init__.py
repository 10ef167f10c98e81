"""Devices: where values are and are computed.

device                the interface: memory, copies, code, programs, time
device_table          the devices by name, and those that this machine has
host_device           the processor, whose memory is NumPy's arrays
fake_device           for tests: memory that the host may not touch
device_program        a schedule that runs on a device with memory of its own
placement             which device a tensor is on, and what may move by itself
device_segments       programs that use several devices
"""
