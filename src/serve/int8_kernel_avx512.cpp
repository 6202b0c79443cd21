#include "int8_kernel.h"

namespace dlrm::serve {

PoolInt8Bags pool_int8_bags_avx512() { return pool_int8; }

}  // namespace dlrm::serve
