#include "hdf5_session.h"

namespace dlrm {

std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace dlrm
