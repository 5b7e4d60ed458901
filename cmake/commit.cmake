# Writes OUTPUT, a C file with VERSION and the commit that SOURCE is at, where it has changed. Run at every build.
execute_process(
  COMMAND git describe --always --dirty --abbrev=12 --exclude=*
  WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE commit
  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#include \"device/inventory.h\"\n\nconst char aorta_version[] = \"${VERSION}\", aorta_commit[] = \"${commit}\";\n")
