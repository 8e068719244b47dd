// The index of the first of the largest |x[i]|, |real| + |imaginary| of complex ones. Groups leave the largest of their parts in
// `scratch`: TANDEM_GROUPS values, and behind them as many indices. A NaN is larger than nothing.
// TANDEM_REAL: the type of a component; TANDEM_COMPONENTS: 1, or 2 of complex numbers; TANDEM_GROUP_ITEMS: work items in a group.
#ifdef TANDEM_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

typedef TANDEM_REAL real;

#define INDICES(scratch) ((__global ulong*)((scratch) + TANDEM_GROUPS * sizeof(ulong)))

__kernel __attribute__((reqd_work_group_size(TANDEM_GROUP_ITEMS, 1, 1))) void iamax_parts(
    __global const real* x, ulong offset, ulong increment, ulong count, ulong per_group, __global uchar* scratch) {
    __local real values[TANDEM_GROUP_ITEMS];
    __local ulong indices[TANDEM_GROUP_ITEMS];
    const size_t item = get_local_id(0);
    const ulong first = get_group_id(0) * per_group;
    const ulong end = min(first + per_group, count);
    real value = -1;
    ulong index = 0;
    for (ulong i = first + item; i < end; i += TANDEM_GROUP_ITEMS) {
        __global const real* element = x + (offset + i * increment) * TANDEM_COMPONENTS;
        real magnitude = fabs(element[0]);
#if TANDEM_COMPONENTS == 2
        magnitude += fabs(element[1]);
#endif
        if (magnitude > value) {
            value = magnitude;
            index = i;
        }
    }
    values[item] = value;
    indices[item] = index;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item != 0) return;
    for (size_t i = 1; i < TANDEM_GROUP_ITEMS; ++i) {
        if (values[i] > value || (values[i] == value && indices[i] < index)) {
            value = values[i];
            index = indices[i];
        }
    }
    ((__global real*)scratch)[get_group_id(0)] = value;
    INDICES(scratch)[get_group_id(0)] = index;
}

// One item. Later groups have later indices.
__kernel void iamax_whole(__global const uchar* scratch, ulong groups, __global long* result, ulong result_offset) {
    __global const real* values = (__global const real*)scratch;
    size_t best = 0;
    for (size_t i = 1; i < groups; ++i) {
        if (values[i] > values[best]) best = i;
    }
    result[result_offset] = (long)((__global const ulong*)(scratch + TANDEM_GROUPS * sizeof(ulong)))[best];
}
