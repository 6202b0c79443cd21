#pragma once
#include <cstdint>

#include "dlrm/config/run_config.h"

/// Bytes that a rank takes of a GPU's memory, if the formula differs from a CPU's; one formula per
/// function. memory.h chooses. Rows, their state and pooled vectors take the same on both.
namespace dlrm {

/// For any model: workspaces of products (32 MiB for each stream that runs some), code that is
/// loaded when it is first called, descriptor lists, scratch that grows with no batch or table, and
/// what the pool rounds up.
inline constexpr double kGpuLibraryBytes = 512.0 * 1024 * 1024;

/// Rows of weights, padded to 16 elements, in what dense_bytes counts for a parameter.
double gpu_weight_padding(const RunConfig& config, double bytes_a_parameter);

/// Rows of layers' outputs and gradients, padded likewise, and relu's masks of a bit an output.
double gpu_activation_extra(const RunConfig& config, int64_t local_batch);

/// Ids of `samples` samples in `rows` of a table: in each of the depth + 1 batches in flight 4
/// bytes as received and 8 as used, 16 per offset; once 24 bytes of runs, what sorting
/// takes (keys and bags before, after and between), and the sums of long runs. With *fixed* routing
/// all of the table's ids may be of these rows.
double gpu_routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                        int64_t samples);

/// *fixed* routing: the messages of all ranks with a table's ids, in the batches in flight.
double gpu_message_bytes(const RunConfig& config, const TableConfig& table);

/// A data-parallel table on several ranks: gradients by row and the mask, [rows, dim + 1] floats,
/// the list of touched rows, and the gradients of the local batch's rows before they are placed.
double gpu_replicated_bytes(const RunConfig& config, const TableConfig& table, int world);

/// Row-wise Adagrad on a part of the columns: gradients by row, exchanged before the update.
double gpu_square_sum_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                            int64_t width);

/// Dense features and labels of the batches in flight. Batches read ahead are on the host.
double gpu_input_bytes(const RunConfig& config, int64_t local_batch);

}  // namespace dlrm
