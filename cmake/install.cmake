# Programs, launch scripts, configs, and the library for find_package(dlrm).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY DLRM_MODULES)
install(TARGETS ${modules} EXPORT dlrmTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/dlrm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/dlrm)
install(EXPORT dlrmTargets NAMESPACE dlrm:: DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/dlrmConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES cmake/dlrmConfig.cmake cmake/dependencies.cmake
  ${CMAKE_BINARY_DIR}/dlrmConfigVersion.cmake DESTINATION ${package_folder})
if(DLRM_CUDA_KIND STREQUAL "TOOLKIT")
  install(FILES cmake/toolkit.cmake DESTINATION ${package_folder})
endif()

# Installs only what was built, because launch/build.sh can build single programs.
foreach(program dlrm-train dlrm-data dlrm-plan dlrm-preflight dlrm-infer dlrm-bench)
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
  install(CODE "if(NOT EXISTS \"$<TARGET_FILE:${program}>\")
  message(STATUS \"Not built, not installed: ${program}\")
endif()")
endforeach()
install(PROGRAMS launch/run.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME dlrm-run)
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/dlrm)
if(TARGET dlrm_import)
  install(TARGETS dlrm_import LIBRARY DESTINATION lib/dlrm OPTIONAL)
endif()
# As in the sources, so that the package finds the scripts and configs.
install(DIRECTORY python/dlrm DESTINATION ${CMAKE_INSTALL_DATADIR}/dlrm/python PATTERN __pycache__ EXCLUDE)
install(PROGRAMS launch/run.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/dlrm/launch)
install(DIRECTORY launch/slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/dlrm/launch)
