# libpathloom: one shared library with the folder lib and everything that it uses, and the
# files by which other programs find it. Only the functions of lib/pathloom.h are exported.
# It links RocksDB as a shared library, because the archive is not position-independent.
set(PL_LIBRARY_VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
add_library(libpathloom SHARED $<TARGET_OBJECTS:pl_lib>)
target_link_libraries(libpathloom PRIVATE pl_view)
target_include_directories(libpathloom INTERFACE $<INSTALL_INTERFACE:include>)
set_target_properties(libpathloom PROPERTIES OUTPUT_NAME pathloom EXPORT_NAME pathloom
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib VERSION ${PROJECT_VERSION}
  SOVERSION ${PL_LIBRARY_VERSION} LINKER_LANGUAGE CXX
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/lib/libpathloom.map
  LINK_OPTIONS "-Wl,--version-script=${CMAKE_SOURCE_DIR}/lib/libpathloom.map;-Wl,-z,defs")

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
# The path from the installed pathloom.pc to the prefix, so that an installation can be
# moved.
file(RELATIVE_PATH PL_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_SOURCE_DIR}/lib/pathloom.pc.in ${CMAKE_BINARY_DIR}/pathloom.pc @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/pathloom-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(TARGETS libpathloom EXPORT pathloom LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${CMAKE_SOURCE_DIR}/lib/pathloom.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/pathloom.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT pathloom NAMESPACE pathloom:: FILE pathloom-config.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pathloom)
install(FILES ${CMAKE_BINARY_DIR}/pathloom-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pathloom)
install(FILES ${CMAKE_SOURCE_DIR}/docs/man/libpathloom.3
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
