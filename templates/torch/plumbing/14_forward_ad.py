_forward_ad: Any = forward_ad  # its private parts, with fallbacks where they are read
