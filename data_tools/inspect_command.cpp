#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "commands.h"
#include "inspect.h"

namespace dlrm {

void add_inspect_command(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("inspect", "Checks a whole dataset and prints its statistics.");
  command->add_option("path", *path, "Dataset file, or a folder of dataset files")->required();
  command->callback([=] { fmt::print("{}", describe_inspection(inspect_dataset(*path))); });
}

}  // namespace dlrm
