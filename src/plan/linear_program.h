#pragma once
#include <vector>

namespace dlrm {

/// The greatest sum of `worth` x where rows (a, limit) say a x <= limit, with x and limits at least
/// 0. Simplex method; stops early if that takes long. Returns x, or nothing if there is no
/// greatest.
std::vector<double> greatest_worth(std::vector<std::vector<double>> rows,
                                   std::vector<double> worth);

}  // namespace dlrm
