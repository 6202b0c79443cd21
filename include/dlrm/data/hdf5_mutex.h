#pragma once
#include <mutex>

namespace dlrm {

/// The serial HDF5 library is not thread-safe: whoever calls it in a process where others may,
/// holds this mutex meanwhile. Reading batches does not call it.
std::mutex& hdf5_mutex();

}  // namespace dlrm
