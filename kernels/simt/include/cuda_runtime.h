#pragma once
// The emulator's stand-in for NVIDIA's header: kernels compiled with this one run on the host,
// block after block, their threads as fibers. docs/architecture.md says what it checks.
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
