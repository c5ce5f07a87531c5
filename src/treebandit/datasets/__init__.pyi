from treebandit.datasets.catalogue import CATALOGUE as CATALOGUE
from treebandit.datasets.catalogue import DataSet as DataSet
from treebandit.datasets.catalogue import load as load
from treebandit.datasets.labelled import LabelledTable as LabelledTable
from treebandit.datasets.labelled import read_labelled as read_labelled
