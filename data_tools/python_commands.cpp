#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/python_package.h"

#include "commands.h"

namespace dlrm {
namespace {

[[noreturn]] void run_module(const std::string& command, const std::string& module,
                             const std::vector<std::string>& arguments) {
  std::vector<std::string> words = python_command(module, arguments);
  std::vector<std::string> environment = python_environment();
  ::execvpe(words[0].c_str(), pointers_to(words).data(), pointers_to(environment).data());
  throw usage_error("cannot start {}: {}; `dlrm-data {}` needs Python: {}", words[0],
                    std::strerror(errno), command, python_advice());
}

void add_command(CLI::App& app, const std::string& name, const std::string& module,
                 const std::string& description) {
  CLI::App* command = app.add_subcommand(name, description);
  command->prefix_command();
  command->set_help_flag();  // the module's options are its own
  command->callback([=] { run_module(name, module, command->remaining()); });
}

}  // namespace

void add_python_commands(CLI::App& app) {
  add_command(app, "import", "dlrm.importing",
              "Makes dataset files of CSV, TSV, Parquet and JSON lines.");
  add_command(app, "export", "dlrm.model.export",
              "Exports a trained model to NumPy, PyTorch or ONNX.");
}

}  // namespace dlrm
