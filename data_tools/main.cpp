#include "dlrm/core/replace_file.h"

#include "commands.h"

int main(int argc, char** argv) {
  dlrm::remove_partial_files_on_signals();
  return dlrm::run_dlrm_data(argc, argv);
}
