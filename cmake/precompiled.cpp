// CMake requires a source for a precompiled header.
