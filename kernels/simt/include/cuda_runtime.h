#pragma once
// The emulator's stand-in for NVIDIA's header. Kernels compiled with it run on the host, block
// after block, with threads as fibers. docs/emulator.md describes its checks.
#include <cassert>
#include <cmath>
#include <cstdint>

// IWYU pragma: begin_exports
#include "simt/atomics.h"
#include "simt/graph_api.h"
#include "simt/intrinsics.h"
#include "simt/qualifiers.h"
#include "simt/runtime_api.h"
#include "simt/threads.h"
#include "simt/vectors.h"
#include "simt/warp.h"
// IWYU pragma: end_exports
