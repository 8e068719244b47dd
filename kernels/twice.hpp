#pragma once
// twice: out = in + in. The rules are those of add.hpp.
