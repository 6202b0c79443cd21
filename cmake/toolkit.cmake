# CMake 3.25 sets a property of CUDA::nvToolsExt for projects that require CMake 3.25. CUDA 13 has no such
# library, and CMake ends with an error.
set(dlrm_minimum ${CMAKE_MINIMUM_REQUIRED_VERSION})
set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
find_package(CUDAToolkit REQUIRED)
set(CMAKE_MINIMUM_REQUIRED_VERSION ${dlrm_minimum})
