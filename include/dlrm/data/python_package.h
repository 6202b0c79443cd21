#pragma once
#include <string>
#include <vector>

namespace dlrm {

/// The words of a command that runs a module of the Python package: the python3 of DLRM_PYTHON,
/// else that of launch/install_deps.sh, else that of PATH. The package is beside an installed
/// program, or in the sources. A usage_error says where it is not.
std::vector<std::string> python_command(const std::string& module,
                                        const std::vector<std::string>& arguments);

/// The environment of that command, "NAME=value" each: this process's, with the package in
/// PYTHONPATH, and the library of imports in DLRM_IMPORT_LIBRARY if that names none.
std::vector<std::string> python_environment();

/// What to say if the command cannot start.
std::string python_advice();

/// Pointers to the texts, and a null pointer after them.
inline std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace dlrm
