_TYPES = {"u": ctypes.c_uint, "p": ctypes.c_void_p, "d": ctypes.c_double, "i": ctypes.c_int}
