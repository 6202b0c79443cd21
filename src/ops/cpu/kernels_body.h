#pragma once
// The table of all kernels of one instruction set.
#include "cpu/activation_body.h"
#include "cpu/dot_body.h"
#include "cpu/dropout_body.h"
#include "cpu/elementwise_body.h"
#include "cpu/embedding_body.h"
#include "cpu/fm_body.h"
#include "cpu/layer_body.h"
#include "cpu/layer_norm_body.h"
#include "cpu/max_bags_body.h"
#include "cpu/mixture_body.h"
#include "cpu/random_body.h"
#include "cpu/update_body.h"

namespace dlrm::cpu {
namespace {

constexpr Kernels kernels_named(const char* name) {
  return {.name = name,
          .to_float = to_float,
          .from_float = from_float,
          .copy_rows = copy_rows,
          .relu = relu,
          .relu_backward = relu_backward,
          .activate = activate,
          .activate_backward = activate_backward,
          .dropout_rows = dropout_rows,
          .layer_norm_rows = layer_norm_rows,
          .layer_norm_backward_rows = layer_norm_backward_rows,
          .layer_norm_sums = layer_norm_sums,
          .mix_rows = mix_rows,
          .mix_backward_rows = mix_backward_rows,
          .add = add,
          .add_row_sums = add_row_sums,
          .repeat_column = repeat_column,
          .all_finite = all_finite,
          .cross_forward = cross_forward,
          .cross_backward = cross_backward,
          .cross_input_backward = cross_input_backward,
          .fm_forward = fm_forward,
          .fm_backward = fm_backward,
          .column_sums = column_sums,
          .one_output = one_output,
          .product_scratch = nullptr,
          .product = nullptr,
          .layer_forward_scratch = layer_forward_scratch,
          .layer_forward = layer_forward,
          .layer_backward_scratch = layer_backward_scratch,
          .layer_backward = layer_backward,
          .dot_scratch = dot_scratch,
          .dot_forward = dot_forward,
          .dot_backward = dot_backward,
          .fetch_bags = fetch_bags,
          .pool_bags = pool_bags,
          .pool_max_bags = pool_max_bags,
          .max_bag_gradients = max_bag_gradients,
          .sum_chunk = sum_chunk,
          .sum_runs = sum_runs,
          .sum_runs_by_row = sum_runs_by_row,
          .fetch_runs = fetch_runs,
          .update_runs = update_runs,
          .row_square_sums = row_square_sums,
          .update_rows = update_rows,
          .update_state = update_state,
          .tensor_factor = tensor_factor,
          .update_dense = update_dense,
          .initial_rows = initial_rows};
}

}  // namespace
}  // namespace dlrm::cpu
