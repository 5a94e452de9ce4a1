"""Generated files: their header, how they stand on disk, and writing them whole or not at all.

Nothing here compiles, and nothing heavy is imported: `symgrad check` of files that are up to date
takes as long as reading them.
"""

from symgrad.files.folder import Folder, refuse_edited
from symgrad.files.hashes import code_hash, compiler_hash, spec_hash
from symgrad.files.header import Header, read_header, render, render_shared, spec_label
from symgrad.files.status import FileState, Status
from symgrad.files.writing import FileError, create, read_text, write

__all__ = [
    "FileError",
    "FileState",
    "Folder",
    "Header",
    "Status",
    "code_hash",
    "compiler_hash",
    "create",
    "read_header",
    "read_text",
    "refuse_edited",
    "render",
    "render_shared",
    "spec_hash",
    "spec_label",
    "write",
]
