#include "dlrm/comm/preflight.h"

#include "mpi_c.h"

namespace dlrm {

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
  const std::string all(text, static_cast<size_t>(length));
  // Open MPI appends who built it and where.
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace dlrm
