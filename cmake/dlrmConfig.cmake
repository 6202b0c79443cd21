# find_package(dlrm) gives the target dlrm::dlrm.
include(CMakeFindDependencyMacro)
enable_language(C)
include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/toolkit.cmake OPTIONAL)  # of a build with CUDA
include(${CMAKE_CURRENT_LIST_DIR}/dlrmTargets.cmake)
