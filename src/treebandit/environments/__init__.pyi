from treebandit.environments.classification import Classification as Classification
from treebandit.environments.clicks import Clicks as Clicks
from treebandit.environments.delayed import Delayed as Delayed
from treebandit.environments.logged import Logged as Logged
from treebandit.environments.navigation import Navigation as Navigation
from treebandit.environments.synthetic import DescribedArms as DescribedArms
from treebandit.environments.synthetic import Synthetic as Synthetic
