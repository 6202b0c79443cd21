# dlrm_module(NAME DEPS modules... LIBS libraries...): the static library dlrm_NAME from src/NAME/*.cpp
# and src/NAME/*/*.cpp, of cuda/ and nccl/ what cuda.cmake says. Files named *_avx2.cpp and
# *_avx512*.cpp are compiled for that instruction set and entered only after a check at run time.
function(dlrm_module name)
  cmake_parse_arguments(M "" "" "DEPS;LIBS" ${ARGN})
  dlrm_cuda_sources(sources ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  add_library(dlrm_${name} STATIC ${sources})
  dlrm_cuda_flags(${sources})
  foreach(file ${sources})
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
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  target_compile_features(dlrm_${name} PUBLIC cxx_std_20)
  foreach(dep ${M_DEPS})
    target_link_libraries(dlrm_${name} PUBLIC dlrm_${dep})
  endforeach()
  target_link_libraries(dlrm_${name} PUBLIC ${M_LIBS})
  set_property(GLOBAL APPEND PROPERTY DLRM_MODULES dlrm_${name})
endfunction()

# dlrm_test(NAME DEPS modules...): the GoogleTest program NAME_test from tests/NAME/*_test.cpp.
function(dlrm_test name)
  cmake_parse_arguments(T "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_include_directories(${name}_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  foreach(dep ${T_DEPS})
    target_link_libraries(${name}_test PRIVATE dlrm_${dep})
  endforeach()
  if(NOT DLRM_CUDA_KIND STREQUAL "NONE")
    target_compile_definitions(${name}_test PRIVATE DLRM_WITH_CUDA)
  endif()
  target_link_libraries(${name}_test PRIVATE ${T_LIBS} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS ${name}
    ENVIRONMENT "OMP_NUM_THREADS=2;OMP_WAIT_POLICY=passive")
endfunction()
