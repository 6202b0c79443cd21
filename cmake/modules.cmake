# dlrm_precompiled(TARGET library|test): includes what most files include, compiled once for all targets.
# g++ requires the same -fopenmp and -fPIC of all of them. The list names no file of this folder, so
# ccache shares the result among clones.
set(precompiled_library <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint>
  <cstring> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional>
  <random> <set> <sstream> <string> <thread> <unordered_map> <utility> <vector>
  <fmt/core.h> <fmt/format.h> <fmt/ranges.h>)
set(precompiled_test ${precompiled_library} <gmock/gmock.h> <gtest/gtest.h>)

# Assertions need no optimisation, and it would be most of the time that tests take to compile.
# UndefinedBehaviorSanitizer checks what is tested, not the tests: it would double that time.
set(DLRM_TEST_FLAGS -O1)
if(DLRM_SANITIZE MATCHES "undefined")
  list(APPEND DLRM_TEST_FLAGS -fno-sanitize=undefined)
endif()

function(dlrm_precompiled target kind)
  set(owner dlrm_precompiled_${kind})
  if(NOT TARGET ${owner})
    add_library(${owner} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
    target_precompile_headers(${owner} PRIVATE ${precompiled_${kind}})
    target_link_libraries(${owner} PRIVATE fmt::fmt)
    target_compile_options(${owner} PRIVATE -fopenmp)
    if(kind STREQUAL "test")
      target_link_libraries(${owner} PRIVATE GTest::gmock)
      target_compile_options(${owner} PRIVATE ${DLRM_TEST_FLAGS})
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# dlrm_unity(TARGET): its sources are compiled eight at a time, which takes half of the time, and a
# third of it where they include large libraries. Sources with options of their own stay alone. After
# a change of one file its seven neighbours are compiled again.
function(dlrm_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# dlrm_cold(FILES...): code that takes no time in a run. -O1 takes a third off its time to compile.
function(dlrm_cold)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O1)
endfunction()

# dlrm_module(NAME [OF_PROGRAM] DEPS modules... LIBS libraries...): the static library dlrm_NAME from src/NAME/*.cpp
# and src/NAME/*/*.cpp, of cuda/ and nccl/ what cuda.cmake says. Files named *_avx2.cpp and
# *_avx512*.cpp are compiled for that instruction set and entered only after a check at run time.
# With OF_PROGRAM its headers are in src/NAME, and it is not installed.
function(dlrm_module name)
  cmake_parse_arguments(M "OF_PROGRAM" "" "DEPS;LIBS" ${ARGN})
  dlrm_cuda_sources(sources ${name})
  add_library(dlrm_${name} STATIC ${sources})
  dlrm_cuda_flags(${sources})
  dlrm_precompiled(dlrm_${name} library)
  foreach(file ${sources})
    if(file MATCHES "_avx")
      set_source_files_properties(${file} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
    if(file MATCHES "_avx2\\.cpp$")
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    elseif(file MATCHES "_avx512bf16\\.cpp$")
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512bf16;-mprefer-vector-width=512")
    elseif(file MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mprefer-vector-width=512")
    endif()
  endforeach()
  target_include_directories(dlrm_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  target_compile_features(dlrm_${name} PUBLIC cxx_std_20)
  foreach(dep ${M_DEPS})
    target_link_libraries(dlrm_${name} PUBLIC dlrm_${dep})
  endforeach()
  target_link_libraries(dlrm_${name} PUBLIC ${M_LIBS})
  if(M_OF_PROGRAM)
    target_include_directories(dlrm_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  else()
    set_property(GLOBAL APPEND PROPERTY DLRM_MODULES dlrm_${name})
  endif()
endfunction()

# dlrm_test(NAME DEPS modules... [SHARES n]): the GoogleTest program NAME_test from tests/NAME/*.cpp
# and tests/NAME/*/*.cpp, compiled twelve at a time: a changed file's unit takes some 10 to 15 s. ctest
# runs its tests in n shares, which may run at the same time, and not each in a process of its own.
function(dlrm_test name)
  cmake_parse_arguments(T "" "SHARES" "DEPS;LIBS" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*/*.cpp)
  file(GLOB others CONFIGURE_DEPENDS ${folder}/mpi/*.cpp ${folder}/programs/*.cpp)
  list(REMOVE_ITEM sources ${folder}/suite.cpp ${folder}/memory_suite.cpp ${others})
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources} ${CMAKE_CURRENT_SOURCE_DIR}/open_files.cpp)
  dlrm_precompiled(${name}_test test)
  set_target_properties(${name}_test PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/open_files.cpp PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)
  target_compile_options(${name}_test PRIVATE ${DLRM_TEST_FLAGS})
  target_include_directories(${name}_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  foreach(dep ${T_DEPS})
    target_link_libraries(${name}_test PRIVATE dlrm_${dep})
  endforeach()
  if(NOT DLRM_CUDA_KIND STREQUAL "NONE")
    target_compile_definitions(${name}_test PRIVATE DLRM_WITH_CUDA)
  endif()
  target_link_libraries(${name}_test PRIVATE ${T_LIBS} GTest::gmock GTest::gtest_main)
  if(NOT T_SHARES)
    set(T_SHARES 1)
  endif()
  set(threads "OMP_NUM_THREADS=2")
  if(DLRM_SANITIZE STREQUAL "thread")
    # ThreadSanitizer does not see the barriers of OpenMP's library. Ranks are threads of their own.
    set(threads "OMP_NUM_THREADS=1;OMP_THREAD_LIMIT=1;TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/sanitizer/threads.txt")
  endif()
  foreach(share RANGE 1 ${T_SHARES})
    math(EXPR index "${share} - 1")
    add_test(NAME ${name}.${share} WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMAND ${DLRM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/run_suite.py
      $<TARGET_FILE:${name}_test> ${CMAKE_BINARY_DIR}/suites/${name}.${share}.json ${index} ${T_SHARES})
    set_tests_properties(${name}.${share} PROPERTIES TIMEOUT 3600 LABELS ${name}
      ENVIRONMENT "${threads};OMP_WAIT_POLICY=passive;LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/sanitizer/leaks.txt:print_suppressions=0")
  endforeach()
endfunction()
