// Operations on whole data-parallel tables.
#include <deque>

#include "checked/checked_ops.h"
#include "checked/host_runs.h"
#include "checked/row_copies.h"

namespace dlrm::checked {
namespace {

/// The gradients of a table in the host's memory.
struct HostTableGradients {
  Copy rows;
  std::vector<float> touched;

  HostTableGradients(HostImage& host, const TableGradients& g)
      : rows(host.of(g.rows)), touched(host.of(g.touched)) {}
  TableGradients view() { return {rows.floats(), touched}; }
};

std::vector<int64_t> touched_rows(const std::vector<float>& touched) {
  std::vector<int64_t> rows;
  for (size_t r = 0; r < touched.size(); ++r) {
    if (touched[r] > 0) rows.push_back(static_cast<int64_t>(r));
  }
  return rows;
}

}  // namespace

void CheckedOps::check(const SumTableGradients& o) {
  std::deque<HostTableGradients> all, all_sizes;
  for (const TableGradients& g : o.gradients) {
    all.emplace_back(host_, g);
    all_sizes.emplace_back(host_, g);
  }
  chosen_->run(o);
  for (size_t t = 0; t < o.tables.size(); ++t) {
    HostTableGradients &want = all[t], &sizes = all_sizes[t], got(host_, o.gradients[t]);
    HostRuns runs(host_, o.tables[t].runs);
    const HostGradients from(host_, o.tables[t].gradients);
    std::vector<float> weights;
    const UpdatedShard plain{{}, {}, from.plain, runs.view()},
        sized{{}, {}, from.sized, runs.sized(weights)};
    const TableGradients to = want.view(), to_sizes = sizes.view();
    reference_.sum_table_gradients({&plain, 1}, {&to, 1});
    reference_.sum_table_gradients({&sized, 1}, {&to_sizes, 1});
    std::vector<int64_t> terms(want.touched.size());
    for (size_t i = 0; i < runs.unique(); ++i) {
      terms[static_cast<size_t>(runs.rows[i])] = runs.starts[i + 1] - runs.starts[i];
    }
    const Subject s = subject("sum_table_gradients",
                              fmt::format("table {} of {}, {} of {} rows", t, o.tables.size(),
                                          runs.unique(), want.touched.size()));
    expect_close(s, "gradient", got.rows.matrix(), want.rows.matrix(), [&](int64_t r, int64_t c) {
      return summing(terms[static_cast<size_t>(r)], sizes.rows.at(r, c));
    });
    for (size_t r = 0; r < want.touched.size(); ++r) {
      if (got.touched[r] == want.touched[r]) continue;
      disagree(s, fmt::format("flag of row {}", r), got.touched[r], want.touched[r]);
    }
  }
}

void CheckedOps::check(const UpdateTables& o) {
  struct Update {
    std::vector<int64_t> rows;
    RowCopies before, want;
  };
  const HostStep now(host_, o.step);
  std::vector<Update> updates;
  for (const auto& [table, gradients] : o.tables) {
    std::vector<int64_t> rows = touched_rows(host_.of(gradients.touched));
    RowCopies before(host_, *now, table, rows), want = before;
    want.update(reference_, *now, host_.rows(Matrix(gradients.rows), rows).floats(), {},
                table.width);
    updates.push_back({std::move(rows), std::move(before), std::move(want)});
  }
  chosen_->run(o);
  for (size_t t = 0; t < updates.size(); ++t) {
    const RowTable& table = o.tables[t].table;
    const Update& u = updates[t];
    u.want.compare(subject("update_tables", fmt::format("table {} of {}, {} of {} rows", t,
                                                        updates.size(), u.rows.size(), table.rows)),
                   *now, RowCopies(host_, *now, table, u.rows), u.before);
  }
}

}  // namespace dlrm::checked
