#pragma once
#include <cstdint>
#include <vector>

#include "embedding/tables/layout.h"
#include "owner_side.h"

namespace dlrm {

/// For each group of a rank the number of its slice among the ordered ones, or -1.
std::vector<int> orders_of_groups(const OwnerLayout& mine);

/// Of the ordered slices of `rank`: counts the ids of intervals, and lists the orders of resident
/// rows. `rows` is working memory.
void list_orders(const EmbeddingLayout& layout, int rank, std::vector<int64_t>& rows,
                 OwnerSide& owner);

}  // namespace dlrm
