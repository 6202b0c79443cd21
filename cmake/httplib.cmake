# cpp-httplib, for dlrm-infer alone: the installed library does without.
find_path(HTTPLIB_INCLUDE httplib.h)
if(NOT HTTPLIB_INCLUDE)
  message(FATAL_ERROR "httplib.h is missing, which dlrm-infer needs: install cpp-httplib (Debian: libcpp-httplib-dev)")
endif()
add_library(dlrm_httplib INTERFACE)
target_include_directories(dlrm_httplib SYSTEM INTERFACE ${HTTPLIB_INCLUDE})
# Debian compiles it as a library with TLS, which changes the layout of its classes. Elsewhere it is a
# header.
find_library(HTTPLIB_LIBRARY cpp-httplib)
if(HTTPLIB_LIBRARY)
  target_link_libraries(dlrm_httplib INTERFACE ${HTTPLIB_LIBRARY})
  target_compile_definitions(dlrm_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT)
endif()
