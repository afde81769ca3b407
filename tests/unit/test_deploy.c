/* folder: base; label: unit */
/* Tests that the Kubernetes manifests are YAML with the expected documents, and that
 * each document has a kind, an API version, metadata and a spec. */
#include "base/base.h"
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "tests/support/suite.h"

static const char *value_of(yaml_document_t *d, const char *key)
{
    yaml_node_t *root = yaml_document_get_root_node(d);
    if (!root || root->type != YAML_MAPPING_NODE)
        return "";
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start;
         p < root->data.mapping.pairs.top; p++) {
        yaml_node_t *k = yaml_document_get_node(d, p->key),
                    *v = yaml_document_get_node(d, p->value);
        if (strcmp((const char *)k->data.scalar.value, key) == 0)
            return v->type == YAML_SCALAR_NODE ? (const char *)v->data.scalar.value
                                               : "?";
    }
    return "";
}

static void check_file(const char *path, const char *const *kinds, int n)
{
    yaml_parser_t parser;
    yaml_document_t d;
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(yaml_parser_initialize(&parser), 1);
    yaml_parser_set_input_file(&parser, in);
    for (int i = 0; i <= n; i++) {
        assert_int_equal(yaml_parser_load(&parser, &d), 1);
        if (i == n) {
            assert_null(yaml_document_get_root_node(&d));
        } else {
            assert_string_equal(value_of(&d, "kind"), kinds[i]);
            assert_true(value_of(&d, "apiVersion")[0] != '\0');
            assert_string_equal(value_of(&d, "metadata"), "?"); /* not a scalar */
            assert_string_equal(value_of(&d, "spec"), "?");
        }
        yaml_document_delete(&d);
    }
    yaml_parser_delete(&parser);
    fclose(in);
}

PL_TEST(manifests_are_documents_of_their_kinds)
{
    static const char *const job[] = {"Service", "StatefulSet"};
    static const char *const workers[] = {"Deployment"};
    check_file("deploy/kubernetes/job.yaml", job, 2);
    check_file("deploy/kubernetes/workers.yaml", workers, 1);
}
