"""What generated modules share: the files of this folder go beside them as they are."""
