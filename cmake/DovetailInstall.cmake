if(NOT DOVETAIL_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dovetail)

install(TARGETS ${DOVETAIL_LIBRARIES} EXPORT dovetail-targets)
install(EXPORT dovetail-targets NAMESPACE dovetail:: DESTINATION ${package_dir})
install(DIRECTORY include/dovetail DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(DOVETAIL_CLI)
  install(TARGETS dovetail_cli)
endif()
configure_package_config_file(cmake/dovetail-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/dovetail-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/dovetail-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dovetail-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/dovetail-config-version.cmake DESTINATION ${package_dir})
