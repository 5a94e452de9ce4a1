_Autocast = collections.namedtuple("_Autocast", ("device", "enabled", "dtype"))
