#pragma once
// What messages say of an archive.

#include <string>
#include <vector>

#include "tandem/npz.hpp"

namespace tandem::npz {

/// The members' names for a message: "'a', 'b', ...", bounded, since an archive may have thousands.
std::string member_list(const std::vector<Member>& members);

}  // namespace tandem::npz
