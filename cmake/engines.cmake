# The engines that can keep chunks besides RocksDB (store/engine/engine.h). Where an
# engine's library is missing, a file is compiled instead that says what to install.
find_path(RADOS_INCLUDE rados/librados.h)
find_library(RADOS_LIBRARY rados)

set(PL_ENGINE_LIBS)
if(RADOS_INCLUDE AND RADOS_LIBRARY)
  list(APPEND PL_ENGINE_LIBS ${RADOS_LIBRARY})
  set(PL_ENGINE_SKIP engine_rados_absent)
else()
  set(PL_ENGINE_SKIP engine_rados\\.c)
endif()
