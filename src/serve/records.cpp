#include "records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/core/error.h"

#include "json_value.h"

namespace dlrm::serve {

Samples read_json_records(std::string_view text, const RecordInputs& inputs, int64_t most) {
  Samples samples;
  inputs.append(read_records(text, inputs.columns(), most), inputs.columns(), samples);
  return samples;
}

bool has_records(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto skip = [&](size_t from) { return text.find_first_not_of(kSpace, from); };
  const size_t brace = skip(0);
  if (brace == std::string_view::npos || text[brace] != '{') return false;
  const size_t quote = skip(brace + 1);
  if (quote == std::string_view::npos) return false;
  const std::string_view rest = text.substr(quote);
  return rest.starts_with("\"records\"") || rest.starts_with("\"shared\"");
}

std::string samples_text(const Samples& samples, const Inputs& inputs) {
  std::string text;
  const size_t features = inputs.features.size();
  for (int64_t s = 0; s < samples.size; ++s) {
    const auto at = static_cast<size_t>(s);
    const auto dense =
        View<const float>(samples.dense)
            .subspan(at * static_cast<size_t>(inputs.dense), static_cast<size_t>(inputs.dense));
    text +=
        fmt::format("{}{{\"dense\": [{}], \"ids\": {{", s == 0 ? "" : ", ", fmt::join(dense, ", "));
    for (size_t f = 0; f < features; ++f) {
      const int64_t* const bag = samples.offsets.data() + at * features + f;
      const View<const int64_t> ids(samples.ids.data() + bag[0],
                                    static_cast<size_t>(bag[1] - bag[0]));
      text += fmt::format("{}{}: [{}]", f == 0 ? "" : ", ", json_text(inputs.features[f].name),
                          fmt::join(ids, ", "));
    }
    text += "}}";
  }
  return "[" + text + "]";
}

void check_samples(int64_t samples, int64_t most) {
  if (samples > most) throw usage_error("a request has at most {} samples", most);
}

}  // namespace dlrm::serve
