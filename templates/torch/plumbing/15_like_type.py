_Like = namedtuple("_Like", ("shape", "dtype"))
