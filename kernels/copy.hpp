#pragma once
// copy: out = in.
//
// Shapes   equal; any strides, each operand its own; no partial overlap.
// Types    every dtype; the bits are moved as they are, except that bool becomes 0 or 1 (any non-zero byte is true), which
//          is what makes a file's bool bytes proper.
