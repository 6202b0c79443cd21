# Headers of Boost.Asio and Boost.Beast, for dlrm-infer alone: the installed library does without.
find_path(BOOST_INCLUDE boost/asio/as_tuple.hpp)
if(NOT BOOST_INCLUDE)
  message(FATAL_ERROR "Boost 1.81 or newer is missing, which dlrm-infer needs (Debian: libboost1.81-dev)")
endif()
add_library(dlrm_boost INTERFACE)
target_include_directories(dlrm_boost SYSTEM INTERFACE ${BOOST_INCLUDE})
