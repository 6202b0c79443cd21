// A config and overrides. Lines that begin with "--set " are overrides.
#include "dlrm/config/run_config.h"

#include "fuzz.h"

namespace dlrm::fuzz {
namespace {

struct Input {
  std::string yaml;
  std::vector<std::string> overrides;
};

Input input_of(std::string_view text) {
  constexpr std::string_view kSet = "--set ";
  Input input;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(kSet)) {
      input.overrides.emplace_back(line.substr(kSet.size()));
    } else {
      input.yaml.append(line).append("\n");
    }
  }
  return input;
}

/// True if a `count` has more than three digits. Making a million tables takes seconds, and
/// tests/config has a test of that bound.
bool makes_many_tables(std::string_view text) {
  constexpr std::string_view kNumber = "0123456789.eE+";
  for (size_t at = text.find("count"); at != std::string_view::npos;
       at = text.find("count", at + 1)) {
    const size_t begin = text.find_first_of(kNumber.substr(0, 10), at);
    if (begin == std::string_view::npos) return false;
    const size_t end = std::min(text.find_first_not_of(kNumber, begin), text.size());
    const std::string_view value = text.substr(begin, end - begin);
    if (value.size() > 3 || value.find_first_of("eE") != std::string_view::npos) return true;
  }
  return false;
}

/// Sizes of an accepted model must not overflow.
void check_sizes(const ModelConfig& model) {
  const bool right = model.num_features() > 0 && model.embedding_width() > 0 &&
                     model.bottom_width() > 0 && model.interaction_width() > 0 &&
                     model.dense_parameters() > 0 && model.lookups_per_sample() > 0;
  if (!right) fail("a size is not positive");
}

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm;
  using namespace dlrm::fuzz;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (makes_many_tables(text)) return 0;
  const Input input = input_of(text);
  RunConfig config;
  if (!accepted(ExitCode::kUsage,
                [&] { config = parse_config(input.yaml, "fuzz.yaml", input.overrides); })) {
    return 0;
  }
  check_sizes(config.model);
  const std::string written = to_yaml(config);
  if (parse_config(written, "again.yaml") != config) {
    fail("changes when it is written and read:\n{}", written);
  }
  return 0;
}
