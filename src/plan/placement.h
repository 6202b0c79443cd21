#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/plan/plan.h"

#include "balance.h"
#include "cost.h"
#include "division.h"
#include "piece.h"
#include "rank_fill.h"
#include "refinement.h"
#include "shards.h"

namespace dlrm {

/// How much bytes matter beside seconds. kMost: of plans that are not too heavy, the evenest is
/// best.
enum class Evenness { kLittle, kMuch, kMost };

/// Cuts tables and places the parts in the order of cost and bytes, the largest first, each on the
/// rank of least load that has room. Tries parts of several sizes and keeps the best plan.
class Placement {
 public:
  /// `start` has the loads that are placed already, and the bytes of a sample more on ranks that
  /// have one. `may_cut[i]` is true if tables[i] may be cut, into parts of at least `narrowest`
  /// columns. If bytes matter much, ranks may be filled one after the other.
  Placement(const RunConfig& config, const CostModel& cost, Balance start, std::vector<int> tables,
            const std::vector<char>& may_cut, int64_t narrowest = kNarrowestColumns,
            Evenness evenness = Evenness::kMuch);

  /// Places the tables. If memory is unknown or too small for all of them, keeps bytes near the
  /// mean, as long as that makes the heaviest rank no more than slightly heavier.
  std::vector<Shard> shards();

 private:
  using Cuts = std::vector<Cut>;  ///< one per table of tables_

  const TableConfig& table(size_t i) const;
  double least_bytes() const;
  Cuts cuts_of(double seconds, double bytes, double* mean = nullptr) const;
  void append_pieces(size_t i, Cut cut, std::vector<Piece>& pieces) const;
  void place(std::vector<Piece>& pieces, Balance& balance) const;
  Refinement placed(const Cuts& cuts, double room);
  std::vector<Shard> begin_filling(const Cuts& cuts, Balance& balance,
                                   std::vector<Piece>& pieces) const;
  template <class Use>
  void for_fillings(View<const double> parts, View<const double> multiples, const Use& use);
  std::optional<Refinement> filled(const RankFill& fill, const Balance& start,
                                   const std::vector<Piece>& placed, double seconds, double& room);
  double even_bytes_of(const Refinement& plan, double multiple) const;
  void even_bytes(Refinement& plan, double most);
  void consider(const Refinement& plan);
  bool is_enough(int64_t most_work) const;
  std::vector<Piece> within(double room);
  std::vector<Piece> balanced(double mean_bytes, int64_t most_work);

  const RunConfig& config_;
  const CostModel& cost_;
  const bool even_;      ///< whether bytes matter much
  const bool evenest_;   ///< and most
  const double common_;  ///< bytes of each rank beside shards and `start`
  Balance start_;
  std::vector<int> tables_;
  std::vector<char> may_cut_;  ///< by table of the model
  int64_t narrowest_;
  TableDivisions divisions_;
  const int64_t change_work_;
  double least_ = 0;                ///< seconds that the heaviest rank cannot be below
  int64_t work_ = 0;                ///< of all trials
  std::optional<Refinement> best_;  ///< if memory is unknown
  double best_score_ = std::numeric_limits<double>::infinity();
};

}  // namespace dlrm
