#include "binary_samples.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "dlrm/core/error.h"

namespace dlrm::serve {
namespace {

static_assert(std::endian::native == std::endian::little);

/// Takes values from the front of a body.
class Body {
 public:
  explicit Body(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

  template <class T>
  T take(const char* what) {
    T value;
    take(&value, 1, what);
    return value;
  }
  template <class T>
  void take(T* values, uint64_t count, const char* what) {
    if (count > rest_.size() / sizeof(T)) {
      throw usage_error("the body has {} bytes, and ends within {}", size_, what);
    }
    std::memcpy(values, rest_.data(), count * sizeof(T));
    rest_.remove_prefix(count * sizeof(T));
  }
  /// Throws unless `count` values of `bytes` bytes are left, before memory is allocated for them.
  void expect(uint64_t count, uint64_t bytes, const char* what) const {
    if (bytes > 0 && count > rest_.size() / bytes) {
      throw usage_error("the body has {} bytes, and ends within {}", size_, what);
    }
  }
  size_t rest() const { return rest_.size(); }

 private:
  std::string_view rest_;
  const size_t size_;
};

void check_dense(const Samples& samples, const Inputs& inputs) {
  for (size_t i = 0; i < samples.dense.size(); ++i) {
    if (std::isfinite(samples.dense[i])) continue;
    const auto n = static_cast<size_t>(inputs.dense);
    throw usage_error("samples[{}]: dense[{}]: {}; needs a finite number", i / n, i % n,
                      samples.dense[i]);
  }
}

void check_ids(const Samples& samples, const Inputs& inputs) {
  const size_t features = inputs.features.size();
  for (size_t bag = 0; bag + 1 < samples.offsets.size(); ++bag) {
    const Inputs::Feature& feature = inputs.features[bag % features];
    for (int64_t k = samples.offsets[bag]; k < samples.offsets[bag + 1]; ++k) {
      const int64_t id = samples.ids[static_cast<size_t>(k)];
      if (id >= 0 && id < feature.rows) continue;
      throw usage_error("samples[{}]: ids.{}[{}]: {}; needs a whole number from 0 to {}",
                        bag / features, feature.name, k - samples.offsets[bag], id,
                        feature.rows - 1);
    }
  }
}

/// Takes the weights of the ids of features that have some. Others weigh 1.
void take_weights(Body& body, const Inputs& inputs, Samples& samples) {
  const size_t features = inputs.features.size();
  samples.weights.assign(samples.ids.size(), 1.0f);
  for (size_t bag = 0; bag + 1 < samples.offsets.size(); ++bag) {
    const Inputs::Feature& feature = inputs.features[bag % features];
    if (!feature.weighted) continue;
    const int64_t first = samples.offsets[bag], count = samples.offsets[bag + 1] - first;
    float* const values = samples.weights.data() + first;
    body.take(values, static_cast<uint64_t>(count), "the weights");
    for (int64_t k = 0; k < count; ++k) {
      if (std::isfinite(values[k])) continue;
      throw usage_error("samples[{}]: weights.{}[{}]: {}; needs a finite number", bag / features,
                        feature.name, k, values[k]);
    }
  }
}

}  // namespace

Samples read_binary_samples(std::string_view bytes, const Inputs& inputs) {
  Body body(bytes);
  const auto version = body.take<uint32_t>("the version");
  if (version != kBinaryVersion) throw usage_error("version {}; needs {}", version, kBinaryVersion);
  const uint64_t size = body.take<uint32_t>("the number of samples");
  const auto dense = static_cast<uint64_t>(inputs.dense);
  const uint64_t features = inputs.features.size();
  body.expect(size, sizeof(float) * dense + sizeof(uint32_t) * features, "the samples");

  Samples samples;
  samples.size = static_cast<int64_t>(size);
  samples.dense.resize(size * dense);
  body.take(samples.dense.data(), size * dense, "the dense features");
  std::vector<uint32_t> lengths(size * features);
  body.take(lengths.data(), lengths.size(), "the numbers of ids");
  int64_t ids = 0, weights = 0;
  samples.offsets.reserve(lengths.size() + 1);
  for (size_t i = 0; i < lengths.size(); ++i) {
    samples.offsets.push_back(ids += lengths[i]);
    if (inputs.features[i % features].weighted) weights += lengths[i];
  }
  const uint64_t expected =
      sizeof(int64_t) * static_cast<uint64_t>(ids) + sizeof(float) * static_cast<uint64_t>(weights);
  if (body.rest() != expected) {
    throw usage_error("{} bytes are left for {} ids of {} bytes{}", body.rest(), ids,
                      sizeof(int64_t), weights > 0 ? fmt::format(" and {} weights", weights) : "");
  }
  samples.ids.resize(static_cast<size_t>(ids));
  body.take(samples.ids.data(), samples.ids.size(), "the ids");
  if (inputs.weighted) take_weights(body, inputs, samples);
  check_dense(samples, inputs);
  check_ids(samples, inputs);
  return samples;
}

std::string binary_probabilities(View<const float> probabilities) {
  return {reinterpret_cast<const char*>(probabilities.data()), probabilities.size_bytes()};
}

}  // namespace dlrm::serve
