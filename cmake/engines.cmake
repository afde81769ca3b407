# Finds the libraries of the storage engines that can keep chunks besides RocksDB
# (store/engine/engine.h). If the library of an engine is missing, a file is compiled
# instead whose error says what to install.
find_path(RADOS_INCLUDE rados/librados.h)
find_library(RADOS_LIBRARY rados)

set(PL_ENGINE_LIBS)
if(RADOS_INCLUDE AND RADOS_LIBRARY)
  list(APPEND PL_ENGINE_LIBS ${RADOS_LIBRARY})
  set(PL_ENGINE_SKIP engine_rados_absent)
else()
  set(PL_ENGINE_SKIP engine_rados\\.c)
endif()
