# Finds RocksDB. `PL_ROCKSDB` gets what libpl_store.a is linked with.
#
# Each time a program starts that uses RocksDB's shared library, the dynamic linker looks
# up 16,000 names. So `pathloom` links the archive, if it lies beside the shared library
# and RocksDB's CMake package says with which libraries it must be linked. Programs of
# tests link the shared library, because they start once but there are 200 of them to
# link. Sanitizers must recognise RocksDB's code, which they have not compiled, by its
# library.
option(PL_ROCKSDB_ARCHIVE "Link RocksDB's archive into pathloom, which then starts faster" ON)
find_library(ROCKSDB_LIBRARY rocksdb REQUIRED)
set(PL_ROCKSDB ${ROCKSDB_LIBRARY})
string(REGEX REPLACE "\\.so$" ".a" archive ${ROCKSDB_LIBRARY})
if(PL_ROCKSDB_ARCHIVE AND NOT PL_SANITIZE AND EXISTS ${archive})
  find_package(RocksDB CONFIG QUIET)
endif()
if(TARGET RocksDB::rocksdb)
  get_target_property(location RocksDB::rocksdb LOCATION)
  get_filename_component(location ${location} REALPATH)
  get_filename_component(archive ${archive} REALPATH)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES RocksDB::rocksdb)
  check_cxx_source_compiles("#include <rocksdb/c.h>
    int main() { return rocksdb_options_create() == nullptr; }" PL_ROCKSDB_ARCHIVE_LINKS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(PL_ROCKSDB_ARCHIVE_LINKS AND location STREQUAL archive)
    set(PL_ROCKSDB_IN_PROGRAM ON)
    set(PL_ROCKSDB
      "$<IF:$<BOOL:$<TARGET_PROPERTY:PL_LINKS_ARCHIVE>>,RocksDB::rocksdb,${ROCKSDB_LIBRARY}>")
  endif()
endif()
if(PL_ROCKSDB_IN_PROGRAM)
  message(STATUS "RocksDB: pathloom has it from ${archive}")
else()
  message(STATUS "RocksDB: ${ROCKSDB_LIBRARY}")
endif()
