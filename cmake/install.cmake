# `cmake --install build/release` installs pathloom; `cpack -G DEB` makes a Debian package.
include(GNUInstallDirs)
install(TARGETS pathloom)
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.1)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_SOURCE_DIR}/share/pathloom.bash RENAME pathloom
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
# The pages are installed in the same folders as in the source, so that links between
# them work.
install(FILES LICENSE README.md CONTRIBUTING.md CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES examples/train_one.c examples/read_run.c
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY docs deploy DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE)
# Debian requires the license in a file with this name.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# A program that contains RocksDB comes with RocksDB's licenses.
if(PL_ROCKSDB_IN_PROGRAM AND EXISTS /usr/share/doc/librocksdb-dev/copyright)
  install(FILES /usr/share/doc/librocksdb-dev/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}
          RENAME copyright.rocksdb)
endif()

set(CPACK_PACKAGE_CONTACT "The Pathloom authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
    "trains language models as mixtures of paths on machines that may die")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The program dpkg-shlibdeps finds the libraries that are linked. The others are loaded
# when they are needed: two to read a corpus and to answer over HTTP, two to multiply
# matrices, two only for a store in Ceph or S3.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libarchive13, libmicrohttpd12")
if(PL_DNNL_LINKS)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libdnnl2")
endif()
if(PL_OPENBLAS_LINKS)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libopenblas0")
endif()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libcurl4, librados2")
include(CPack)
