#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/random.h"

namespace dlrm::testing {

/// Bags of a generated data set: a pure function of (step, sample, feature).
class MadeUpBags {
 public:
  /// If `variable`, features of even number have bags of 0 to 2·hotness ids. Otherwise every bag
  /// has hotness ids.
  explicit MadeUpBags(const std::vector<TableConfig>& tables, bool variable = true)
      : variable_(variable) {
    for (const TableConfig& table : tables) {
      for (const FeatureConfig& feature : table.features) {
        rows_.push_back(table.rows);
        hotness_.push_back(feature.hotness);
        weighted_.push_back(feature.weights);
      }
    }
  }
  size_t features() const { return rows_.size(); }

  /// The weight of id k of a bag: -1 to 1, or 1 if the feature's ids have none.
  float weight(int64_t step, int64_t sample, size_t feature, size_t k) const {
    if (!weighted_[feature]) return 1;
    const uint32_t drawn =
        philox(98, {static_cast<uint32_t>(step), static_cast<uint32_t>(sample),
                    static_cast<uint32_t>(feature), static_cast<uint32_t>(k)})[0];
    return static_cast<float>(drawn >> 16) / 32768.0f - 1.0f;
  }

  std::vector<int64_t> bag(int64_t step, int64_t sample, size_t feature) const {
    const auto draw = [&](uint32_t k) {
      return philox(99, {static_cast<uint32_t>(step), static_cast<uint32_t>(sample),
                         static_cast<uint32_t>(feature), k})[0];
    };
    int64_t length = hotness_[feature];
    if (variable_ && feature % 2 == 0) length = draw(0) % (2 * length + 1);
    std::vector<int64_t> ids;
    for (int64_t k = 0; k < length; ++k) {
      ids.push_back(static_cast<int64_t>(draw(static_cast<uint32_t>(k) + 1)) % rows_[feature]);
    }
    return ids;
  }

  /// The bags of samples [begin, end), feature-major.
  void fill(int64_t step, int64_t begin, int64_t end, std::vector<int64_t>& ids,
            std::vector<int64_t>& offsets) const {
    ids.clear();
    offsets.assign(1, 0);
    for (size_t f = 0; f < features(); ++f) {
      for (int64_t i = begin; i < end; ++i) {
        for (const int64_t id : bag(step, i, f)) ids.push_back(id);
        offsets.push_back(static_cast<int64_t>(ids.size()));
      }
    }
  }

  /// The weights of the ids of fill(). Empty if no feature has weights.
  std::vector<float> weights(int64_t step, int64_t begin, int64_t end) const {
    std::vector<float> weights;
    if (std::find(weighted_.begin(), weighted_.end(), 1) == weighted_.end()) return weights;
    for (size_t f = 0; f < features(); ++f) {
      for (int64_t i = begin; i < end; ++i) {
        const size_t ids = bag(step, i, f).size();
        for (size_t k = 0; k < ids; ++k) weights.push_back(weight(step, i, f, k));
      }
    }
    return weights;
  }

 private:
  bool variable_;
  std::vector<int64_t> rows_, hotness_;
  std::vector<char> weighted_;
};

/// A gradient in place of a model's, for E's element (sample, column) with value e.
inline double made_up_gradient(int64_t step, int64_t sample, int64_t column, double e) {
  const double pattern = static_cast<double>((step * 31 + sample * 17 + column * 7) % 23) - 11.5;
  return 0.3 * e + 0.05 * pattern;
}

/// Embedding tables and their optimizer in fp64, computed row by row from the formulas.
class PlainTables {
 public:
  PlainTables(std::vector<TableConfig> tables, OptimizerConfig optimizer, uint64_t seed)
      : tables_(std::move(tables)), optimizer_(optimizer) {
    for (const TableConfig& table : tables_) {
      std::vector<float> row(static_cast<size_t>(table.dim));
      Table& plain = plain_.emplace_back();
      for (int64_t r = 0; r < table.rows; ++r) {
        initial_row(table.row_init(), stream_key(seed, table.path()), static_cast<uint64_t>(r), 0,
                    table.dim, row.data());
        plain.weight.insert(plain.weight.end(), row.begin(), row.end());
      }
      const OptimizerTraits& traits = traits_of(optimizer.type);
      plain.state1.assign(plain.weight.size(), traits.states[0].initial(optimizer));
      plain.state2.assign(plain.weight.size(), traits.states[1].initial(optimizer));
    }
  }

  /// E [samples, W].
  std::vector<double> forward(const MadeUpBags& bags, int64_t step, int64_t samples) const {
    std::vector<double> e;
    for (int64_t i = 0; i < samples; ++i) {
      size_t f = 0;
      for (size_t t = 0; t < tables_.size(); ++t) {
        for (const FeatureConfig& feature : tables_[t].features) {
          const std::vector<int64_t> ids = bags.bag(step, i, f);
          for (int64_t c = 0; c < tables_[t].dim; ++c) {
            double sum = 0;
            for (const int64_t id : ids) sum += plain_[t].weight[at(t, id, c)];
            if (feature.pooling == Pooling::kMean && !ids.empty()) {
              sum /= static_cast<double>(ids.size());
            }
            e.push_back(sum);
          }
          ++f;
        }
      }
    }
    return e;
  }

  void train(const MadeUpBags& bags, int64_t step, int64_t samples, double lr) {
    const std::vector<double> e = forward(bags, step, samples);
    const auto width = static_cast<int64_t>(e.size()) / std::max<int64_t>(samples, 1);
    size_t f = 0;
    int64_t column = 0;
    for (size_t t = 0; t < tables_.size(); ++t) {
      std::map<int64_t, std::vector<double>> gradients;
      for (const FeatureConfig& feature : tables_[t].features) {
        for (int64_t i = 0; i < samples; ++i) {
          const std::vector<int64_t> ids = bags.bag(step, i, f);
          const double scale = feature.pooling == Pooling::kMean
                                   ? 1.0 / static_cast<double>(std::max<size_t>(ids.size(), 1))
                                   : 1.0;
          for (const int64_t id : ids) {
            std::vector<double>& g = gradients[id];
            g.resize(static_cast<size_t>(tables_[t].dim));
            for (int64_t c = 0; c < tables_[t].dim; ++c) {
              const double value = e[static_cast<size_t>(i * width + column + c)];
              g[static_cast<size_t>(c)] += scale * made_up_gradient(step, i, column + c, value);
            }
          }
        }
        ++f;
        column += tables_[t].dim;
      }
      for (const auto& [row, g] : gradients) update(t, row, g, lr, step);
    }
  }

  struct Table {
    std::vector<double> weight, state1, state2;  ///< [rows, dim]; row-wise state in column 0
  };
  const Table& table(size_t t) const { return plain_[t]; }

 private:
  size_t at(size_t t, int64_t row, int64_t column) const {
    return static_cast<size_t>(row * tables_[t].dim + column);
  }

  void update(size_t t, int64_t row, std::vector<double> g, double lr, int64_t step) {
    Table& plain = plain_[t];
    if (optimizer_.type != OptimizerRule::kFtrl) {
      for (int64_t c = 0; c < tables_[t].dim; ++c) {
        g[static_cast<size_t>(c)] += optimizer_.l2 * plain.weight[at(t, row, c)];
      }
    }
    double squares = 0;
    for (const double v : g) squares += v * v;
    if (optimizer_.clip_norm > 0) {
      const double scale = std::min(1.0, optimizer_.clip_norm / (std::sqrt(squares) + 1e-6));
      for (double& v : g) v *= scale;
      squares *= scale * scale;
    }
    const double mean_square = squares / static_cast<double>(g.size());
    if (traits_of(optimizer_.type).rowwise()) {
      plain.state1[at(t, row, 0)] += mean_square;
    }
    for (int64_t c = 0; c < tables_[t].dim; ++c) {
      const double v = g[static_cast<size_t>(c)];
      double& w = plain.weight[at(t, row, c)];
      double& s1 = plain.state1[at(t, row, c)];
      double& s2 = plain.state2[at(t, row, c)];
      switch (optimizer_.type) {
        case OptimizerRule::kSgd:
          w -= lr * v;
          break;
        case OptimizerRule::kAdagrad:
          s1 += v * v;
          w -= lr * v / (std::sqrt(s1) + optimizer_.eps);
          break;
        case OptimizerRule::kRowwiseAdagrad:
          w -= lr * v / (std::sqrt(plain.state1[at(t, row, 0)]) + optimizer_.eps);
          break;
        case OptimizerRule::kAdam: {
          s1 = optimizer_.beta1 * s1 + (1 - optimizer_.beta1) * v;
          s2 = optimizer_.beta2 * s2 + (1 - optimizer_.beta2) * v * v;
          const double m = s1 / (1 - std::pow(optimizer_.beta1, step + 1));
          const double n = s2 / (1 - std::pow(optimizer_.beta2, step + 1));
          w -= lr * m / (std::sqrt(n) + optimizer_.eps);
          break;
        }
        case OptimizerRule::kFtrl: {  // z of a weight that was never updated keeps that weight
          const double l1 = optimizer_.l1, l2 = optimizer_.l2, beta = optimizer_.beta;
          if (s1 == 0 && w != 0) {
            s1 = -w * ((beta + std::sqrt(s2)) / lr + l2) - std::copysign(l1, w);
          }
          const double n = s2 + v * v;
          s1 += v - (std::sqrt(n) - std::sqrt(s2)) / lr * w;
          s2 = n;
          const double beyond = std::abs(s1) - l1;
          w = beyond <= 0 ? 0 : -std::copysign(beyond, s1) / ((beta + std::sqrt(n)) / lr + l2);
          break;
        }
        case OptimizerRule::kLamb:  // for dense layers only
          break;
      }
    }
  }

  std::vector<TableConfig> tables_;
  OptimizerConfig optimizer_;
  std::vector<Table> plain_;
};

}  // namespace dlrm::testing
