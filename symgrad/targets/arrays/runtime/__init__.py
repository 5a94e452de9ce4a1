"""What generated modules over arrays share: the files of this folder go beside them as they are."""
