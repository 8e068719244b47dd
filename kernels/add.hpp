#pragma once
// add: out = left + right.
//
// Shapes   all three equal; any strides; out may be left or right itself.
// Types    every dtype, all three the same.
// Meaning  integers wrap modulo 2^n; bool is a logical or, where any non-zero byte counts as true and the result is 0 or 1;
//          float16 and bfloat16 are added in float32 and rounded to nearest even, which is exact rounding of the true sum, since
//          float32 carries more than twice their digits plus two; complex adds component by component.
// Exact    the same bits as NumPy on every backend, except for the payload of a NaN.
