#pragma once
#include <cstdint>

#include "dlrm/config/run_config.h"

/// GPU memory of a rank in bytes, one formula per function, where it differs from a CPU's. memory.h
/// selects. Rows, their state and pooled vectors take the same on both.
namespace dlrm {

/// For any model: workspaces of products (32 MiB for each stream that runs them), code that is
/// loaded when it is first called, descriptor lists, scratch whose size depends on no batch or
/// table, and rounding by the pool.
inline constexpr double kGpuLibraryBytes = 512.0 * 1024 * 1024;

/// Padding of weight rows to 16 elements, in all arrays that dense_bytes counts for a parameter.
double gpu_weight_padding(const RunConfig& config, double bytes_a_parameter);

/// Padding of the rows of layers' outputs and gradients, and the masks of relu: one bit per output.
double gpu_activation_extra(const RunConfig& config, int64_t local_batch);

/// Room for a rank's list of so many ids or bags in cut rows, if its capacity recurs
/// (embedding/list_capacities.h), and the buffer may have grown by a quarter. Capacities follow the
/// longest of the first lists, one standard deviation above the mean.
double gpu_list_room(double count);

/// Bytes of a key of the ids that are sorted. Keys count the rows of all tables.
double gpu_key_bytes(const ModelConfig& model);

/// Memory for the ids of `samples` samples of `sources` ranks in `rows` of a table. Each of the
/// batches in flight takes 4 bytes per id as received, 8 as used, and 16 per offset. All batches
/// share 24 bytes of segments, the memory for sorting (keys and bags before, after and between),
/// and the sums of long segments.
double gpu_routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                        int64_t samples, int sources, double key_bytes);

/// If devices exchange ids: the blocks of all ranks with a table's ids and the lengths of its bags,
/// in the batches in flight.
double gpu_message_bytes(const RunConfig& config, const TableConfig& table);

/// Memory of a data-parallel table on several ranks: gradients by row and their flags, [rows, dim +
/// 1] floats.
double gpu_replicated_bytes(const TableConfig& table, int world);

/// Row-wise Adagrad on some of the columns: gradients by row, exchanged before the update. Of
/// `ordered` rows also their orders.
double gpu_square_sum_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                            int64_t width, int world, bool ordered);

/// Dense features, labels and weights of the batches in flight. Batches read ahead are on the host.
double gpu_input_bytes(const RunConfig& config, int64_t local_batch);

}  // namespace dlrm
