#pragma once
// The runs of a warp, one after another. While a run is processed, the rows, states and first
// gradients of the next ones are loading: their loads are issued before its stores.
#include <cstdint>

#include "kernels/row_update.cuh"

namespace dlrm::kernels {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900
constexpr bool kOnSm90 = true;
#else
constexpr bool kOnSm90 = false;
#endif
constexpr int kInFlight = 4;  ///< further gradients of a run that load at a time

/// The pooled gradient of an occurrence, of type G.
template <class G>
struct Part {
  const G* row;
  float scale;
};
template <class G>
__device__ inline Part<G> part_of(const GradientList* gradients, const Occurrence& o) {
  const GradientList g = *global(gradients + o.group);
  return {global(static_cast<const G*>(g.pooled) + o.bag * g.stride),
          g.scale != nullptr ? *global(g.scale + o.bag) : 1.0f};
}

/// The occurrences of runs. kWeighted: with weights, if the shard has them.
template <bool kWeighted>
struct Occurrences {
  const Occurrence* at;
  const float* weights;

  __device__ explicit Occurrences(const UpdateShard& s, int64_t first = 0)
      : at(s.occurrences + first), weights(nullptr) {
    if (kWeighted && s.weights_of_occurrences != nullptr) {
      weights = s.weights_of_occurrences + first;
    }
  }
  /// `scale` times the weight of occurrence k.
  __device__ float weighted(float scale, int64_t k) const {
    return kWeighted && weights != nullptr ? __fmul_rn(scale, *global(weights + k)) : scale;
  }
  template <class G>
  __device__ Part<G> part(const GradientList* gradients, int64_t k) const {
    Part<G> part = part_of<G>(gradients, at[k]);
    part.scale = weighted(part.scale, k);
    return part;
  }
};
template <class G>
__device__ inline RawQuad load_part(const G* row, int c, int left, bool aligned) {
  return load_raw(row, c, left, sizeof(G) == 2, aligned);
}
template <class G>
__device__ inline void add_part(Quad& total, const RawQuad& part, float scale) {
  add_scaled(total, values_of(part, sizeof(G) == 2), scale);
}

/// total += the gradients of occurrences [1, length), in their order.
template <class G, bool kWeighted>
__device__ inline void add_further(const GradientList* gradients,
                                   const Occurrences<kWeighted>& occurrences, int length, int c,
                                   int left, bool aligned, Quad& total) {
  for (int k = 1; k < length; k += kInFlight) {
    Occurrence occurrence[kInFlight];
    RawQuad quads[kInFlight];
    float scales[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (k + u < length) occurrence[u] = *global(occurrences.at + k + u);
    }
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (k + u < length) {
        const Part<G> part = part_of<G>(gradients, occurrence[u]);
        quads[u] = load_part(part.row, c, left, aligned);
        scales[u] = occurrences.weighted(part.scale, k + u);
      }
    }
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (k + u < length) add_part<G>(total, quads[u], scales[u]);
    }
  }
}

/// A run's gradient, summed on demand. Sums start at -0, because -0 + x = x for every x.
template <class G, bool kWeighted>
struct RunSource {
  const GradientList* gradients;
  Occurrences<kWeighted> occurrences;
  int length;
  Part<G> first;
  bool aligned;

  __device__ Quad operator()(int c, int left) const {
    Quad total = quad_of(-0.0f);
    add_part<G>(total, load_part(first.row, c, left, aligned), first.scale);
    add_further<G>(gradients, occurrences, length, c, left, aligned, total);
    return total;
  }
};

__device__ inline int64_t from_lane(int64_t x, int lane) {
  return __shfl_sync(kAllLanes, static_cast<long long>(x), lane);
}
template <class T>
__device__ inline T* from_lane(T* p, int lane) {
  return global(
      reinterpret_cast<T*>(__shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(p), lane)));
}

/// One of the warp's runs, as one lane holds it.
template <class G>
struct RunFacts {
  int64_t row;
  int64_t number;  ///< of the row; see number_of. For rows of bf16
  int64_t start;
  int length;  ///< 0: no run, or a long one
  Part<G> first;
};
template <class G, bool kWeighted>
__device__ inline RunFacts<G> facts_of(const UpdateShard& s, int64_t run, bool exists) {
  RunFacts<G> facts{0, 0, 0, 0, {nullptr, 0}};
  if (!exists) return facts;
  facts.row = s.rows[run];
  if (s.bf16 != 0) facts.number = number_of(s, facts.row);
  facts.start = s.starts[run];
  const int64_t length = s.starts[run + 1] - facts.start;
  if (length > kLongRun) return facts;
  facts.length = static_cast<int>(length);
  facts.first = Occurrences<kWeighted>(s).template part<G>(s.gradients, facts.start);
  return facts;
}
template <class G>
__device__ inline RunFacts<G> from_lane(const RunFacts<G>& mine, int lane) {
  RunFacts<G> facts;
  facts.row = from_lane(mine.row, lane);
  facts.start = from_lane(mine.start, lane);
  facts.length = __shfl_sync(kAllLanes, mine.length, lane);
  facts.first.row = from_lane(mine.first.row, lane);
  facts.first.scale = __shfl_sync(kAllLanes, mine.first.scale, lane);
  return facts;
}

/// Processes the warp's short runs, whose rows of type W and gradients are read four columns at a
/// time. A step of the loop takes `reach` columns of a run for each part of the warp.
template <class W, bool kWeighted, class G, class Sink>
__device__ void process_ahead(const UpdateShard& shard, const Sink& sink, const RunFacts<G>& mine,
                              int64_t first, int runs, const Lanes& lanes) {
  struct Loaded {
    typename Sink::Loaded row;
    RawQuad gradient;
  };
  // Words that a lane loads for four columns.
  constexpr int kWords = Sink::template kWords<W> + static_cast<int>(sizeof(G));
  constexpr int kAhead = !kOnSm90 ? 1 : kWords <= 4 ? 3 : kWords <= 8 ? 2 : 1;
  const ShardRows s(shard);
  const GradientList* const gradients = shard.gradients;
  const Occurrences<kWeighted> all(shard);
  Loaded next[kAhead];
  int from = 0, base = 0;
  const auto advance = [&](int& run, int& column) {
    column += reach(lanes);
    if (column < s.width) return;
    column = 0;
    run += lanes.parts();
  };
  const auto load = [&](Loaded& to) {
    const int at = from + lanes.part, c = base + 4 * lanes.index;
    const int64_t row = from_lane(mine.row, at & 31);
    const G* const gradient = from_lane(mine.first.row, at & 31);
    const int length = __shfl_sync(kAllLanes, mine.length, at & 31);
    if (at < runs && length > 0) {
      to.row = sink.template load<W>(s, row, c, lanes);
      if (c < s.width) to.gradient = load_part(gradient, c, 4, true);
    }
    advance(from, base);
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(next[i]);
  int run = 0, column = 0;
  const auto process = [&](const Loaded& now) {
    const int at = run + lanes.part, c = column + 4 * lanes.index;
    const int64_t row = from_lane(mine.row, at & 31);
    const int64_t start = from_lane(mine.start, at & 31);
    const int length = __shfl_sync(kAllLanes, mine.length, at & 31);
    const float scale = __shfl_sync(kAllLanes, mine.first.scale, at & 31);
    const int64_t number = sizeof(W) == 2 ? from_lane(mine.number, at & 31) : 0;
    if (at >= runs || length == 0) return;
    Quad gradient = quad_of(0);
    if (c < s.width) {
      gradient = quad_of(-0.0f);
      add_part<G>(gradient, now.gradient, scale);
      Occurrences<kWeighted> occurrences = all;
      occurrences.at += start;
      if (kWeighted && all.weights != nullptr) occurrences.weights += start;
      add_further<G>(gradients, occurrences, length, c, 4, true, gradient);
    }
    sink.template apply<W>(s, first + at, row, number, now.row, gradient, c, lanes);
  };
  // Each place has its registers: a copy from one to another would wait for its load.
  while (run < runs) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const Loaded now = next[i];
      load(next[i]);
      process(now);
      advance(run, column);
    }
  }
}

/// Processes the short runs among runs [first, first + runs). Each lane reads the facts of one run.
/// Then the parts of the warp process the runs in turn.
template <class G, bool kWeighted, class Sink>
__device__ void sum_runs(const UpdateShard& s, const Sink& sink, int64_t first, int runs) {
  const Lanes lanes(s.shift);
  const RunFacts<G> mine = facts_of<G, kWeighted>(s, first + lane_of(), lane_of() < runs);
  if (s.gradients_aligned != 0 && sink.can_load_ahead(s, lanes)) {
    if (s.bf16 != 0) {
      if constexpr (Sink::kTakesBf16)
        process_ahead<Bf16, kWeighted>(s, sink, mine, first, runs, lanes);
    } else {
      process_ahead<float, kWeighted>(s, sink, mine, first, runs, lanes);
    }
    return;
  }
  for (int from = 0; from < runs; from += lanes.parts()) {
    const int at = from + lanes.part;
    const RunFacts<G> run = from_lane(mine, at & 31);
    if (at >= runs || run.length == 0) continue;
    sink(s, first + at, run.row,
         RunSource<G, kWeighted>{s.gradients, Occurrences<kWeighted>(s, run.start), run.length,
                                 run.first, s.gradients_aligned != 0},
         lanes);
  }
}

}  // namespace dlrm::kernels
