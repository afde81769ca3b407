# Makes a page: joins the page's parts to one HTML file, and writes this file as a C
# array.
#   cmake -DPARTS=FOLDER -DSHARED=FOLDER -DNAME=NAME -DOUT=FILE.c -P page.cmake
# The folder PARTS has one *.html file, and *.js and *.css files. If SHARED is a different
# folder, page.css and 10-base.js of SHARED are put before the files of PARTS.
file(GLOB html_file ${PARTS}/*.html)
file(READ ${html_file} html)
file(GLOB scripts ${PARTS}/*.js)
list(SORT scripts)
file(GLOB styles ${PARTS}/*.css)
if(NOT SHARED STREQUAL PARTS)
  list(INSERT scripts 0 ${SHARED}/10-base.js)
  list(INSERT styles 0 ${SHARED}/page.css)
endif()
set(script "")
foreach(part ${scripts})
  file(READ ${part} text)
  string(APPEND script "${text}")
endforeach()
set(style "")
foreach(part ${styles})
  file(READ ${part} text)
  string(APPEND style "${text}")
endforeach()
string(REPLACE "/* PAGE-STYLE */" "${style}" html "${html}")
string(REPLACE "/* PAGE-SCRIPT */" "${script}" html "${html}")
file(WRITE ${OUT}.html "${html}")
file(READ ${OUT}.html bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include \"serve/page_asset.h\"\nconst unsigned char ${NAME}[] = {\n${bytes}};\n"
  "const size_t ${NAME}_bytes = sizeof ${NAME};\n")
