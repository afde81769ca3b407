# Finds the libraries of the storage engines, besides RocksDB, that can keep chunks
# (store/engine/engine.h). If the library of an engine is missing, the engine's source is
# replaced by a file that only reports what to install. librados is loaded when an
# engine is opened, so only its header is needed here.
find_path(RADOS_INCLUDE rados/librados.h)

if(RADOS_INCLUDE)
  set(PL_ENGINE_SKIP engine_rados_absent)
else()
  set(PL_ENGINE_SKIP engine_rados\\.c)
endif()
