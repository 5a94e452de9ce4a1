_Autocast = namedtuple("_Autocast", ("device", "enabled", "dtype"))
